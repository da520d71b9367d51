"""Files of the user: read with care, written whole or not at all, one writer a folder.

Every room that reads what a user names, or leaves a file for one, does it through this door.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
