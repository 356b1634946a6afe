"""The page to play with: ``ruvdecision explore`` serves it from this machine to this machine.

A student moves sliders, drags the threshold on the map, and sees the chosen release, both posteriors, the formulas and
the sentence that explains the choice change at once; an agency tries masks on a file of its own. Server, widgets and
drawings are Panel's and Bokeh's (``pip install "ruvdecision[explore]"``); every number is made by this package.

State lives in the page's address, so that a setting is shared by sharing a link; no record is ever part of it.
`start` opens the page, `lessons` holds the built-in topics, `study` turns a study file into one and `microdata` a file
of records, `page` shows a topic, `drawing` draws, `server` serves.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
