"""Reports over benchmark runs, as JSON, Markdown and HTML."""
