"""Partial uploads, which clients resume after their connection broke."""

from app.service.uploads.upload_pieces import PieceWriter, Upload
from app.service.uploads.upload_store import Uploads

__all__ = ["PieceWriter", "Upload", "Uploads"]
