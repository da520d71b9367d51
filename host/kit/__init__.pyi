from .files import kit_files as kit_files
