"""What is known of learning recurrent networks by SGD before anything is trained."""
