"""Options, designs, data and networks that several subcommands share."""
