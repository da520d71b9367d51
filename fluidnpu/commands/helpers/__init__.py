"""What several subcommands share: options, and the designs, data and networks that a command line names."""
