"""One package a kind of object, each with `observing` (reads), `deciding` (pure) and `acting` (writes).

Controllers never import each other: they meet in the store.
"""
