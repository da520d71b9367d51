"""The front door: the public API and the console command."""
