"""Shell command lines, as far as rights need to understand them."""
