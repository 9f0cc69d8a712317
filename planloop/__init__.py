"""The command `plan`, the owner's API and the wiring of real objects; every rule lives in the layers below."""
