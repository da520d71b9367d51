"""What several subcommands share: options; designs, data and networks that a command line names.
