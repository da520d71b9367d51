"""`python -m fluidnpu` is the console command, for machines whose path lacks the script."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="fluidnpu")
