"""What the commands do. Each module may import everything below; `krogh.cli` imports it on call."""
