"""From events to figures: the fold, how a model stands, who is better, and what may be said of that. All pure."""
