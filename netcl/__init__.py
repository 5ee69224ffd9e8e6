"""netcl: a glass-box reverse-mode autodiff on OpenCL, made to be looked at in a notebook."""

from netcl._version import __version__

__all__ = ["__version__"]
