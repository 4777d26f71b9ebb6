"""The JSON of uploads."""

from datetime import datetime

from pydantic import BaseModel, Field

from app.model.times import to_time
from app.model.uploads import UploadRecord
from app.web.resources.schemas import Links


class UploadView(BaseModel):
    """One resumable upload."""

    id: str
    owner: str = Field(
        description="whose upload it is: the kind of its credentials, and the identifier or the name of the key",
        examples=["key:9f2c4b1e"],
    )
    offset: int = Field(description="number of received bytes; the upload continues here")
    size: int | None = Field(description="bytes of the whole content; null until the client tells it")
    is_complete: bool = Field(description="whether all bytes are here, so that the upload can be sent")
    name: str | None = Field(description="the file's name", examples=["report.pdf"])
    content_type: str
    created_at: datetime
    expires_at: datetime
    links: Links

    @classmethod
    def of(cls, record: UploadRecord, base: str) -> "UploadView":
        return cls(
            id=record.id,
            owner=record.owner,
            offset=record.received,
            size=record.length,
            is_complete=record.is_complete,
            name=record.file_name,
            content_type=record.content_type,
            created_at=to_time(record.created_at),
            expires_at=to_time(record.expires_at),
            links={"self": f"{base}/uploads/{record.id}"},
        )
