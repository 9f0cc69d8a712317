"""`plan chat`: input lines, slash commands, and the loop between them."""
