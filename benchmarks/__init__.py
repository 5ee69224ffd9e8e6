"""Benchmarks: netcl beside its peers, in one interleaved run. README.md says how to run them and what rows mean."""
