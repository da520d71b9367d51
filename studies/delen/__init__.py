"""The study of Delen: criteria, modes and tenants on recorded confidences of networks trained here."""
