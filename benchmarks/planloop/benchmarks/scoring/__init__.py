"""From events to figures: the fold, the summary of a model, and comparisons. All pure."""
