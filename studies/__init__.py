"""Studies of published systems, one folder a paper: its data, its tasks, its statements and our verdicts.

A study is a list of tasks whose answers become one dictionary in plain JSON types; pages, tables and figures
are pure functions of that dictionary. `study.py` runs and writes any of them, `catalogue.py` finds one by its
name.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
