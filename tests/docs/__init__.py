"""The pages of the documentation are true: their examples run and print what they show."""
