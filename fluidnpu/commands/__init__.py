"""The subcommands of `fluidnpu`, one file each: the click command, a record of its options, and the function that runs it."""
