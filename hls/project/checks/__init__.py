"""Checks of generated Tcl and HLS pragmas."""
