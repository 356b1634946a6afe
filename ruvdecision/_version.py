"""The version, in one place: the build, the command line and saved maps read it here."""

__version__ = "0.2.0"
