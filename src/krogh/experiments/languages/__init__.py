"""Regular languages: which of them recurrent networks and others learn, and whether algebra predicts it."""
