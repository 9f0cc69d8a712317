"""The vocabulary: what a plan may say and what an object is. Pure values; imports nothing of the product.

`address pointer` name things, `resource record` are the log and its fold, `patching patch` change them, `task agent
call message budget rights` are the kinds, `fields` is the plan language, `limits` holds every bound.
"""
