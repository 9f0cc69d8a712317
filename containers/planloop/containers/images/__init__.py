"""Images that we make ourselves: of a folder, of a root file system's tar, and the stock set of Debian packages.

What is written is the same to the byte for the same content, so that its id says what it is.
"""
