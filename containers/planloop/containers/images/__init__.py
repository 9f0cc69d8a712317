"""Images that planloop builds: stock images of Debian packages, and images of a folder or a root file system."""
