"""Import of files: logs of other tools in, domain records out. What a file holds is only ever data."""
