"""What a plan has to say as JSON: conversations, revisions, what waits, who waits for whom."""
