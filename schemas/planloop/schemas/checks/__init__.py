"""What acceptance checks may ask of files, programs and pages."""
