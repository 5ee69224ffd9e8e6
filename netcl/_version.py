"""The one place that holds the version; the build and `netcl.__version__` both read it."""

__version__ = "1.0.0.dev0"
