"""Container engines, Compose export, images, and the sandboxes that commands run in."""
