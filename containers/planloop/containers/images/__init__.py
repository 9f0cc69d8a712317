"""Images that planloop builds: stock images from Debian packages, and images of a folder or a root file system."""
