"""Whatever senders write comes back as it was."""

from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.model.attachment import AttachmentKind, DeliveryState
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    DeliveryRecord,
    FramingOptions,
    GroupProgress,
    MessageRecord,
    NewEvent,
    OutgoingAttachment,
    QuarantineRecord,
)
from app.ports import AttachmentFilter, Catalog
from tests.contracts.catalog.records import State
from tests.support.length import examples

numbers = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters()) | st.text("\0\x1a0af\ud800")  # the latter: what databases refuse, or escapes
serial = count()

# One catalog takes all the examples, whose identifiers are new, and each database's tests inherit the property.
ON_PURPOSE = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]


outgoing = st.builds(
    OutgoingAttachment,
    correl_id=st.binary(max_size=16),
    kind=st.sampled_from(AttachmentKind),
    qualifier_1=texts,
    qualifier_2=texts,
    description=texts,
    minor_version=numbers,
    major_version=numbers,
    object_name=texts,
    size=numbers,
    sha256=texts,
)


class RoundTrips:
    """A part of `CatalogContract`, which the tests of adapters inherit."""

    # --- round trips ----------------------------------------------------------------------------------------------

    @settings(suppress_health_check=ON_PURPOSE, max_examples=examples(20), deadline=None)
    @given(data=st.data())
    def test_whatever_senders_write_comes_back(self, catalog: Catalog, data: st.DataObject) -> None:
        optional_number, optional_text = st.none() | numbers, st.none() | texts
        identifier = texts.map(lambda text: f"{next(serial)}{text}")
        kept = data.draw(
            st.builds(
                AttachmentRecord,
                id=identifier,
                source=identifier,
                correl_id=st.binary(max_size=24),
                state=st.sampled_from(State),
                message_id=optional_text,
                ordinal=numbers,
                kind=st.none() | st.sampled_from(AttachmentKind),
                qualifier_1=texts,
                qualifier_2=texts,
                description=texts,
                minor_version=numbers,
                major_version=numbers,
                dialects=st.integers(0, (1 << 64) - 1),
                parts_expected=optional_number,
                parts_received=numbers,
                pending_counts=st.lists(st.integers(0, (1 << 64) - 1)).map(tuple),
                pending_position=optional_number,
                group=st.none() | st.builds(GroupProgress, optional_number, numbers, numbers),
                first_position=numbers,
                first_received_at=numbers,
                size=optional_number,
                content_type=optional_text,
                storage=st.sampled_from([None, "journal", "store"]),
                object_name=optional_text,
                reason_code=optional_text,
                reason=optional_text,
            )
        )
        told = data.draw(
            st.builds(
                MessageRecord,
                id=identifier,
                source=texts,
                header_correl_id=st.binary(max_size=24),
                message_correl_id=st.binary(max_size=24),
                original_msg_type=numbers,
                original_correl_id=st.binary(max_size=24),
                attachments=st.lists(texts).map(tuple),
                header_position=numbers,
                received_at=numbers,
                application_body=st.none() | st.binary(),
                application_format=texts,
                application_ccsid=numbers,
                complete_at=optional_number,
            )
        )
        refused = data.draw(
            st.builds(
                QuarantineRecord,
                id=identifier,
                source=texts,
                position=numbers,
                code=texts,
                row=texts,
                at=numbers,
                why=texts,
                msg_type=numbers,
                correl_id=st.binary(max_size=24),
                size=numbers,
                received_at=numbers,
            )
        )
        sent = data.draw(
            st.builds(
                DeliveryRecord,
                id=identifier,
                destination=texts,
                header_correl_id=st.binary(max_size=24),
                message_correl_id=st.binary(max_size=24),
                attachments=st.lists(outgoing, max_size=3).map(tuple),
                created_at=numbers,
                updated_at=numbers,
                state=st.sampled_from(DeliveryState),
                application_body=st.none() | st.binary(),
                cut=st.none()
                | st.builds(
                    FramingOptions,
                    numbers,
                    texts,
                    numbers,
                    numbers,
                    optional_number,
                    st.sampled_from(["sas_queue", "mq_group"]),
                    st.sampled_from(["messages", "segments"]),
                ),
                reason=optional_text,
                idempotency_key=st.none() | identifier,
                fingerprint=optional_text,
            )
        )
        happened = NewEvent(
            data.draw(texts), data.draw(texts), data.draw(numbers), {data.draw(texts): data.draw(texts)}
        )
        catalog.checkpoint(
            Checkpoint(
                attachments=[kept], messages=[told], quarantine=[refused], source_dialects={kept.source: kept.dialects}
            )
        )
        catalog.add_delivery(sent, [happened])
        assert catalog.attachment(kept.id) == kept
        assert catalog.attachments_by_key(kept.source, [kept.correl_id]) == {kept.correl_id: kept}
        assert kept in catalog.attachments(AttachmentFilter(name=kept.qualifier_2 or None), None, 1000).items
        assert catalog.message(told.id) == told
        assert catalog.quarantine_entry(refused.id) == refused
        assert catalog.delivery(sent.id) == sent
        assert catalog.source_dialects()[kept.source] == kept.dialects
        assert catalog.events_after(catalog.last_event() - 1, 1)[0][1:] == happened
