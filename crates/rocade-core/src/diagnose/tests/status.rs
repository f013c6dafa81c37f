//! What a status, a silence and the counters mean.

use super::*;

#[test]
fn unlike_message_sizes_are_named_from_either_side() {
    let cure = "give both ends the same -s";
    Case::of(Failure::Size { seen: 64 })
        .says("the other end sends messages of 64 bytes, this one of 4096", cure);
    for status in [1, 2] {
        Case::of(Failure::Completion { status, done: 0 })
            .says("the other end's messages are larger than 4096 bytes", cure);
    }
    for status in [9, 10, 11] {
        Case::of(Failure::Completion { status, done: 0 })
            .says("the other end refuses messages of 4096 bytes", cure);
    }
    for status in [1, 9, 10, 11] {
        Case::of(Failure::Completion { status, done: 0 })
            .with(|case| case.remote.message_bytes = Some(64))
            .says("this end's messages have 4096 bytes, the other end's 64", cure);
    }
}

#[test]
fn a_remote_access_error_of_a_write_or_read_is_the_other_ends_memory() {
    for operation in [Operation::Write, Operation::Read] {
        let access =
            || Case::of(Failure::Completion { status: 10, done: 0 }).with(|case| case.operation = operation);
        access().says(
            "the other end's memory does not take messages of 4096 bytes: it registered less, or not for this operation",
            "with -a, both -a",
        );
        access()
            .with(|case| case.remote.message_bytes = Some(2))
            .says("this end's messages have 4096 bytes, the other end's 2", "the same -s");
        for status in [9, 11] {
            Case::of(Failure::Completion { status, done: 5 })
                .with(|case| case.operation = operation)
                .says("the other end refuses this operation", "the same options");
        }
        Case::of(Failure::Silence { done: 5 })
            .with(|case| (case.operation, case.counted) = (operation, counted(&[("rcvd_rnr_err", 4)])))
            .does_not_say("RNR");
    }
}

#[test]
fn the_size_of_messages_that_went_well_before_is_not_blamed() {
    let after = |status, operation| {
        Case::of(Failure::Completion { status, done: 1147 }).with(|case| case.operation = operation)
    };
    for status in [9, 10, 11] {
        after(status, Operation::Send)
            .says("the other end refuses a message after 1147 that it took", "its output");
    }
    after(10, Operation::Write)
        .says("the other end's memory takes no more messages after 1147 that it took", "its output");
    // With several sizes the next one may be the one that does not fit.
    after(10, Operation::Write).with(|case| case.local.message_bytes = None).says(
        "the other end's memory does not take messages: it registered less, or not for this operation",
        "both -a",
    );
    after(2, Operation::Send)
        .with(|case| case.local.message_bytes = None)
        .says("the other end's messages are larger than this end's", "the same -s");
    after(2, Operation::Send).says("the HCA gave up a work request", "dmesg");
}

#[test]
fn a_receiver_that_is_not_ready_is_told_by_its_status_and_as_likely_by_what_the_port_counted() {
    Case::of(Failure::Completion { status: 13, done: 3 })
        .says("the other end had no receive posted for too long (RNR)", "a larger -r");
    let counting = |counter, done| {
        Case::of(Failure::Silence { done }).with(|case| case.counted = counted(&[(counter, 4)]))
    };
    for (counter, done) in [("rnr_nak_retry_err", 0), ("rcvd_rnr_err", 0), ("rcvd_rnr_err", 9)] {
        counting(counter, done).says(
            &format!("the other end seems to have no receive posted (RNR): this port counted {counter} +4"),
            "a larger -r",
        );
    }
    Case::of(Failure::Silence { done: 0 })
        .with(|case| case.counted = counted(&[("rcvd_rnr_err", 0)]))
        .says(NO_PACKET, "ping");
}

/// The port counts what all its connections do.
#[test]
fn receives_that_others_lacked_are_not_blamed_for_what_facts_explain_or_the_status_denies() {
    let counting = |failure| Case::of(failure).with(|case| case.counted = counted(&[("rcvd_rnr_err", 4)]));
    for done in [0, 9] {
        counting(Failure::Completion { status: 12, done }).does_not_say("RNR");
        for sends in [Some(false), None] {
            counting(Failure::Silence { done }).with(|case| case.sends = sends).does_not_say("RNR");
        }
    }
    let silent = || counting(Failure::Silence { done: 0 });
    silent()
        .to("fd01::2")
        .says("one GID is IPv4, the other IPv6 (10.1.0.1 here, fd01::2 there)", "one family");
    silent().to("10.2.0.2").says(
        "10.2.0.2, the other end's GID, is on another rail: in the subnet of eth2, and not in that of eth1",
        "-d rxe2",
    );
    silent()
        .with(|case| case.host.netdevs[0].addresses.clear())
        .says("GID index 1 (10.1.0.1) is of no address of this network namespace", "leave -x out");
}

/// F75: traffic in a class that is not lossless hangs under load; counters and the forced class tell.
#[test]
fn packets_lost_before_a_silence_are_told_with_their_counters_and_the_traffic_class_in_use() {
    let lost = |change: fn(&mut Case)| {
        Case::of(Failure::Silence { done: 70_000 })
            .with(|case| case.counted = counted(&[("out_of_sequence", 12), ("packet_seq_err", 3)]))
            .with(change)
    };
    let cause = "the other end fell silent after 70000 messages, and packets were lost or reordered: this port counted \
                 packet_seq_err +3, out_of_sequence +12";
    lost(|case| case.local.traffic_class = Some(106))
        .says(cause, "a priority that is not lossless (traffic class 106, DSCP 26)");
    lost(|case| {
        case.local.traffic_class = Some(106);
        case.host.hcas[0].ports[0].traffic_class = Some(0);
    })
    .says(cause, "(the port forces traffic class 0, DSCP 0)");
}

#[test]
fn retries_alone_which_a_busy_host_has_as_well_are_no_loss() {
    let retries = [("completer_retry_err", 5), ("duplicate_request", 2)];
    Case::of(Failure::Silence { done: 7 })
        .with(|case| case.counted = counted(&retries))
        .says("the other end fell silent after 7 messages", "a smaller -n");
    Case::of(Failure::Silence { done: 0 }).with(|case| case.counted = counted(&retries)).says(
        &format!("{NO_PACKET} (this port counted completer_retry_err +5, duplicate_request +2)"),
        "ping",
    );
}

#[test]
fn the_rest_is_told_as_the_status_stands() {
    Case::of(Failure::Completion { status: 5, done: 1 })
        .says("the QP broke down before this request", "the first error above");
    Case::of(Failure::Completion { status: 4, done: 1 }).says("the HCA gave up a work request", "dmesg");
    Case::of(Failure::Completion { status: 12, done: 7 })
        .says("the other end fell silent after 7 messages", "a smaller -n");
    Case::of(Failure::Data).says("data arrived changed, though every packet's checksum was right", "IOMMU");
    let event = Failure::Event { event: "port error".to_owned(), on: "mlx5_0/1".to_owned(), done: 9 };
    Case::of(event).says("mlx5_0/1 told of `port error` after 9 messages", "dmesg");
    let event = "local access violation work queue error".to_owned();
    Case::of(Failure::Event { event, on: "rxe1".to_owned(), done: 0 }).says(
        "rxe1 told of `local access violation work queue error` after 0 messages: the other end reaches for memory that \
         this end has not registered for it",
        "the same -s",
    );
}
