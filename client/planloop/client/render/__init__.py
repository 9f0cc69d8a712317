"""Text that commands print, made from values. Pure."""
