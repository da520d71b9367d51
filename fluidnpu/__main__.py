"""The console command as `python -m fluidnpu`."""

from .cli import main

main()
