"""Controllers, in general a package for each kind of object, with a pure `decide` and a `controller` that acts. They
share code only through `shared`.
"""
