"""Pure text: what the command prints, made from values."""
