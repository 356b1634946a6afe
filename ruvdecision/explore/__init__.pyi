from .lessons import LESSONS as LESSONS
from .microdata import example_file as example_file
from .start import explore as explore, export_lesson as export_lesson, open_server as open_server

__all__ = ["LESSONS", "example_file", "explore", "export_lesson", "open_server"]
