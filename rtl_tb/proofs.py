"""What is proven of the data plane, and the bugs that each proof must find: data for `rtl_tb.formal`. `python -m rtl_tb.proof_report` runs them all.

`reads` is the RTL under proof, `harness` what stands around it; a contract in `harness` takes the place of a module that has a proof of its own.

>>> PROOFS["engine"].top
'engine_proof'
"""

from __future__ import annotations

from .formal import Proof, Seed

_REGISTERS, _TYPES = "fluidnpu_registers_pkg.sv", "fluidnpu_pkg.sv"

PROOFS: dict[str, Proof] = {
    "engine": Proof(
        says="0 <= B_act <= B_max and the FBCB index in range for any commands; a refusal changes nothing; a plan can be obeyed",
        top="engine_proof",
        reads=(_REGISTERS, "fluid_batching_engine.sv"),
        inside={"fluid_batching_engine.sv": "inside_engine.sv"},
        harness=("engine_proof.sv",),
        depth=2,
        seeds=(
            Seed(
                name="merge-one-too-many",
                file="fluid_batching_engine.sv",
                old="merged > 7'(BMax)",
                new="merged > 7'(BMax + 1)",
            ),
            Seed(
                name="exit-of-a-stranger",
                file="fluid_batching_engine.sv",
                old="(mask_i & ~active_q) != '0",
                new="(mask_i & ~active_q) == '1",
            ),
            Seed(
                name="merge-of-an-active",
                file="fluid_batching_engine.sv",
                old="(mask_i & active_q) != '0",
                new="(mask_i & active_q) == '1",
            ),
            Seed(
                name="layer-unchecked",
                file="fluid_batching_engine.sv",
                old="32'(Layers) && b_act_q",
                new="32'(Layers + 1) && b_act_q",
            ),
            Seed(
                name="block-beyond-the-banks",
                file="fluid_batching_engine.sv",
                old=" || block > depth;",
                new=";",
            ),
            Seed(
                name="half-a-bank-forgotten",
                file="fluid_batching_engine.sv",
                old="16'(TR / 2 > 0 ? TR / 2 : 1)",
                new="16'(TR)",
            ),
            Seed(
                name="loads-out-of-range",
                file="fluid_batching_engine.sv",
                old="load_index_i >= 32'(Words)",
                new="load_index_i > 32'(Words)",
            ),
            Seed(
                name="refusal-loses-state",
                file="fluid_batching_engine.sv",
                old="cause_o   = fluidnpu_registers_pkg::CauseBatchTooLarge;",
                new="cause_o   = fluidnpu_registers_pkg::CauseBatchTooLarge; active_d = mask_i; b_act_d = 5'(ones(mask_i));",
            ),
        ),
    ),
    "read": Proof(
        says="AXI: read bursts never cross 4 KiB, are as long as announced, hold still, ask for what was requested; promised beats find room",
        top="read_proof",
        reads=("fluidnpu_fifo.sv", "axi_read_master.sv"),
        harness=("read_proof.sv",),
        depth=3,
        seeds=(
            Seed(
                name="crosses-4k",
                file="axi_read_master.sv",
                old="BeatsWidth'(to_page) < ",
                new="BeatsWidth'(to_page) + 1 < ",
            ),
            Seed(name="one-beat-short", file="axi_read_master.sv", old="8'(length - 9'd1)", new="8'(length - 9'd2)"),
            Seed(
                name="no-room-check",
                file="axi_read_master.sv",
                old="32'(level) + 32'(inflight_q) + 32'(length)",
                new="32'(level) + 32'(length)",
            ),
            Seed(
                name="moves-under-pressure",
                file="axi_read_master.sv",
                old="(!arvalid_q || m_axi_arready)\n",
                new="1'b1\n",
            ),
            Seed(
                name="flush-forgets-promises",
                file="axi_read_master.sv",
                old="if (flush_i) left_q <= '0;",
                new="if (flush_i) begin left_q <= '0; inflight_q <= '0; end",
            ),
        ),
    ),
    "write": Proof(
        says="AXI: write bursts likewise; WLAST is right, no answer is lost, idle means that nothing is owed",
        top="write_proof",
        reads=("fluidnpu_fifo.sv", "axi_write_master.sv"),
        harness=("write_proof.sv",),
        depth=3,
        seeds=(
            Seed(
                name="crosses-4k",
                file="axi_write_master.sv",
                old="next_q[11:0] == 12'd0;",
                new="next_q[11:0] == 12'd2;",
            ),
            Seed(
                name="last-too-early",
                file="axi_write_master.sv",
                old="wlast_q  <= left_q == 9'd1;",
                new="wlast_q  <= left_q <= 9'd2;",
            ),
            Seed(
                name="answer-lost",
                file="axi_write_master.sv",
                old="OutWidth'(burst_pop) - OutWidth'(answer);",
                new="OutWidth'(burst_pop && !answer) - OutWidth'(answer);",
            ),
            Seed(
                name="flush-drops-the-rest",
                file="axi_write_master.sv",
                old="// A flush takes",
                new="if (flush_i) left_q <= '0;  // A flush takes",
            ),
        ),
    ),
    "sequencer": Proof(
        says="soft reset, error and watchdog reach idle within a bound once the masters are idle; commands are legal; no state waits for itself",
        top="sequencer_proof",
        reads=(_REGISTERS, _TYPES, "fluidnpu_sequencer.sv"),
        inside={"fluidnpu_sequencer.sv": "inside_sequencer.sv"},
        harness=("sequencer_proof.sv",),
        depth=8,
        search_depth=14,
        seeds=(
            Seed(
                name="flush-never-ends",
                file="fluidnpu_sequencer.sv",
                old="if (hold_q != '0) hold_q <= hold_q - 5'd1;",
                new="if (hold_q != '0) hold_q <= hold_q;",
            ),
            Seed(
                name="empty-batch-starts",
                file="fluidnpu_sequencer.sv",
                old="else if (b_act_i == '0)",
                new="else if (b_act_i == '1)",
            ),
            Seed(
                name="block-ignored",
                file="fluidnpu_sequencer.sv",
                old="left0_q > 32'(running_q.block) ? running_q.block",
                new="left0_q > 32'd9 ? running_q.block",
                any_state=True,
            ),
            Seed(
                name="layer-beyond-the-last",
                file="fluidnpu_sequencer.sv",
                old="if (layer_q == last_q) begin",
                new="if (layer_q == last_q + 16'd1) begin",
                any_state=True,
            ),
            Seed(
                name="plan-waits-for-more",
                file="fluidnpu_sequencer.sv",
                old="          if (plan_done_i) begin",
                new="          if (plan_done_i && fetched_i) begin",
                any_state=True,
            ),
            Seed(
                name="stuck-ignored",
                file="fluidnpu_sequencer.sv",
                old="end else if (stuck_i) begin",
                new="end else if (stuck_i && state_q == Plan) begin",
            ),
            Seed(
                name="soft-reset-only-when-busy",
                file="fluidnpu_sequencer.sv",
                old="if (job_error || soft_reset_i) begin",
                new="if (job_error || (soft_reset_i && busy_o)) begin",
            ),
        ),
    ),
    "unpack": Proof(
        says="a job gives exactly its beats with zeros behind its words, takes exactly its port words",
        top="unpack_proof",
        reads=("fluidnpu_unpack.sv",),
        harness=("unpack_proof.sv",),
        depth=6,
        seeds=(
            Seed(
                name="tail-not-zeroed",
                file="fluidnpu_unpack.sv",
                old="if (i >= left_q) beat_o",
                new="if (i > left_q) beat_o",
            ),
            Seed(
                name="skip-counted-as-words",
                file="fluidnpu_unpack.sv",
                old="CountWidth'(PortWords) - CountWidth'(skip_q)",
                new="CountWidth'(PortWords)",
            ),
            Seed(
                name="no-room-for-a-word",
                file="fluidnpu_unpack.sv",
                old="32'(count_after) + PortWords <= Room",
                new="32'(count_after) + PortWords < Room - 2",
            ),
        ),
    ),
    "fifo": Proof(
        says="a queue gives what was put in, in order; its head stays until it is taken; a clear empties it",
        top="fluidnpu_fifo",
        reads=("fluidnpu_fifo.sv",),
        inside={"fluidnpu_fifo.sv": "inside_fifo.sv"},
        parameters={"Width": 4, "Depth": 3},
        depth=2,
        seeds=(
            Seed(
                name="overwrites", file="fluidnpu_fifo.sv", old="push    = valid_i && ready_o", new="push    = valid_i"
            ),
            Seed(
                name="wraps-late", file="fluidnpu_fifo.sv", old="IndexWidth'(Depth - 1) ?", new="IndexWidth'(Depth) ?"
            ),
            Seed(name="clear-keeps-level", file="fluidnpu_fifo.sv", old="if (!rst_ni || clear_i)", new="if (!rst_ni)"),
        ),
    ),
    "registers": Proof(
        says="AXI4-Lite: every access is taken and answered once, illegal ones with SLVERR and without any effect",
        top="fluidnpu_regs",
        reads=(_REGISTERS, "fluidnpu_regs.sv"),
        inside={"fluidnpu_regs.sv": "inside_regs.sv"},
        depth=2,
        seeds=(
            Seed(
                name="write-hangs",
                file="fluidnpu_regs.sv",
                old="(!bvalid_q || s_axil_bready);",
                new="!bvalid_q && !rvalid_q;",
            ),
            Seed(name="partial-write-counts", file="fluidnpu_regs.sv", old=" && s_axil_wstrb == 4'hF;", new=";"),
            Seed(
                name="illegal-read-is-okay",
                file="fluidnpu_regs.sv",
                old="Exists) ? Okay : SlvErr;",
                new="Exists) ? Okay : Okay;",
            ),
            Seed(
                name="unaligned-is-legal",
                file="fluidnpu_regs.sv",
                old="address[1:0] == 2'b00 && 32'(address)",
                new="32'(address)",
            ),
            Seed(
                name="answer-lost",
                file="fluidnpu_regs.sv",
                old="if (s_axil_rready) rvalid_q <= 1'b0;",
                new="rvalid_q <= 1'b0;",
            ),
        ),
    ),
    "rows": Proof(
        says="every row is one of an active sample, inside its image, its window's first input row told; none lies above the start that was told",
        top="fluidnpu_row_walker",
        reads=(_TYPES, "fluidnpu_row_walker.sv"),
        inside={"fluidnpu_row_walker.sv": "inside_row_walker.sv"},
        parameters={"BMax": 3},
        depth=2,
        search_depth=10,
        seeds=(
            Seed(
                name="lane-of-a-stranger",
                file="fluidnpu_row_walker.sv",
                old="lane_q ? b_r_i : 5'd0",
                new="lane_q ? b_r_i + 5'd1 : 5'd0",
            ),
            Seed(
                name="row-too-far",
                file="fluidnpu_row_walker.sv",
                old="place_q.row + 16'd1 != out_h_i",
                new="place_q.row != out_h_i",
            ),
            Seed(
                name="column-too-far",
                file="fluidnpu_row_walker.sv",
                old="place_q.column + 16'd1 != out_w_i",
                new="place_q.column != out_w_i",
            ),
            Seed(
                name="repeats-go-on",
                file="fluidnpu_row_walker.sv",
                old="step && commit_q ? next : start_q",
                new="step ? next : start_q",
            ),
            Seed(
                name="start-too-early",
                file="fluidnpu_row_walker.sv",
                old="if (commit_q) start_q <= next;",
                new="if (commit_q || beats_q == 16'd2) start_q <= next;",
            ),
            Seed(
                name="start-a-row-too-far",
                file="fluidnpu_row_walker.sv",
                old="start_offset_o  = start_q.row_offset;",
                new="start_offset_o  = start_q.row_offset + step_h_i;",
            ),
            Seed(
                name="top-forgets-the-sample",
                file="fluidnpu_row_walker.sv",
                old="next.top    = place_q.top + span_i;",
                new="next.top    = span_i;",
            ),
            Seed(
                name="index-of-the-other-lane",
                file="fluidnpu_row_walker.sv",
                old="row_index_o     = place_q.sample[SampleWidth-1:0];",
                new="row_index_o     = sample[SampleWidth-1:0];",
            ),
        ),
    ),
    "windows": Proof(
        says="every segment lies in its row's window and in its lane's part of the beat, P-tile by P-tile, and not before the oldest place that is needed",
        top="fluidnpu_window_segments",
        reads=(_TYPES, "fluidnpu_window_segments.sv"),
        harness=("row_walker_contract.sv",),
        inside={"fluidnpu_window_segments.sv": "inside_window_segments.sv"},
        parameters={"TP": 2, "BMax": 2, "LineWords": 4},
        depth=2,
        search_depth=8,
        seeds=(
            Seed(
                name="tail-runs-on",
                file="fluidnpu_window_segments.sv",
                old="words     = rest < 24'(space) ?",
                new="words     = rest > 24'(space) ?",
            ),
            Seed(
                name="tap-too-many",
                file="fluidnpu_window_segments.sv",
                old="window_q.tap_column + 8'd1 != layer_i.kernel_w",
                new="window_q.tap_column != layer_i.kernel_w",
            ),
            Seed(
                name="lane-1-in-lane-0",
                file="fluidnpu_window_segments.sv",
                old="(row_lane ? CountWidth'(TP) : '0)",
                new="(row_lane ? CountWidth'(TP - 1) : '0)",
            ),
            Seed(
                name="tile-starts-anew",
                file="fluidnpu_window_segments.sv",
                old="tile_window_q <= pool ? '0 : next;",
                new="tile_window_q <= '0;",
            ),
            Seed(
                name="a-row-too-few",
                file="fluidnpu_window_segments.sv",
                old="segment_rows_o      = row_top + layer_i.span;",
                new="segment_rows_o      = row_top + layer_i.span - 24'd1;",
            ),
            Seed(
                name="oldest-of-the-row-at-hand",
                file="fluidnpu_window_segments.sv",
                old="base_i[start_index] + start_offset;",
                new="base_i[start_index] + row_offset;",
            ),
            Seed(
                name="another-sample",
                file="fluidnpu_window_segments.sv",
                old="base_i[row_index] + row_offset",
                new="base_i[start_index] + row_offset",
            ),
        ),
    ),
    "guard": Proof(
        says="guard words are zero whatever came before: a word of a beat that none of its segments covers carries no data at all",
        top="fluidnpu_line_cache",
        reads=(_TYPES, "fluidnpu_line_cache.sv"),
        harness=("fifo_contract.sv",),
        inside={"fluidnpu_line_cache.sv": "inside_line_cache_guard.sv"},
        parameters={"InWords": 2, "PortWords": 2, "LineWords": 2, "Sets": 4, "Ahead": 2},
        depth=2,
        seeds=(
            Seed(
                name="beat-not-cleared",
                file="fluidnpu_line_cache.sv",
                old="beat_q <= s1_ends_q ? '0 : beat_d;",
                new="beat_q <= beat_d;",
                any_state=True,
            ),
            Seed(
                name="piece-not-cut",
                file="fluidnpu_line_cache.sv",
                old="if (i < 32'(s1_words_q)) piece",
                new="if (i <= 32'(s1_words_q)) piece",
                any_state=True,
            ),
            Seed(
                name="flush-keeps-half-a-beat",
                file="fluidnpu_line_cache.sv",
                old="      s1_valid_q <= 1'b0;\n      beat_q     <= '0;\n",
                new="      s1_valid_q <= 1'b0;\n",
                any_state=True,
            ),
        ),
    ),
    "cache": Proof(
        says="the line cache never waits for itself: data that a segment waits for are taken when they come",
        top="fluidnpu_line_cache",
        reads=(_TYPES, "fluidnpu_line_cache.sv"),
        harness=("fifo_contract.sv",),
        inside={"fluidnpu_line_cache.sv": "inside_line_cache.sv"},
        free=("entry",),  # whatever the tags say
        parameters={"InWords": 2, "PortWords": 2, "LineWords": 2, "Sets": 4, "Ahead": 2},
        depth=2,
        seeds=(
            Seed(
                name="waits-for-itself",
                file="fluidnpu_line_cache.sv",
                old="line_entry.used - 16'd1) < 16'(Ahead + 4)",
                new="line_entry.used) <= 16'(Ahead + 4)",
                any_state=True,
            ),
        ),
    ),
    "residuals": Proof(
        says="a row of residuals is read from exactly the port words that hold it",
        top="fluidnpu_residual_reader",
        reads=(_TYPES, "fluidnpu_residual_reader.sv"),
        harness=("row_walker_contract.sv", "fifo_contract.sv", "unpack_contract.sv"),
        inside={"fluidnpu_residual_reader.sv": "inside_residual_reader.sv"},
        parameters={"BMax": 2, "OutWords": 3, "PortWords": 4},
        depth=2,
        seeds=(
            Seed(
                name="a-beat-too-many",
                file="fluidnpu_residual_reader.sv",
                old="32'(PortWords) - 32'd1) / PortWords",
                new="32'(PortWords)) / PortWords",
            ),
            Seed(
                name="skip-not-read",
                file="fluidnpu_residual_reader.sv",
                old="(32'(skip) + 32'(cols_q)",
                new="(32'(cols_q)",
            ),
            Seed(
                name="slot-of-another",
                file="fluidnpu_residual_reader.sv",
                old="slot_i[row_sample] + ",
                new="slot_i[0] + ",
            ),
        ),
    ),
    "outputs": Proof(
        says="what is written of a row lies between its first and its last word, and the strobes say just that",
        top="fluidnpu_output_writer",
        reads=(_TYPES, "fluidnpu_output_writer.sv"),
        harness=("row_walker_contract.sv",),
        inside={"fluidnpu_output_writer.sv": "inside_output_writer.sv"},
        parameters={"BMax": 2, "OutWords": 3, "PortWords": 4},
        depth=2,
        search_depth=8,
        seeds=(
            Seed(
                name="row-end-ignored",
                file="fluidnpu_output_writer.sv",
                old="if (in_row < 12'(in_beat)) in_beat",
                new="if (in_row > 12'(in_beat)) in_beat",
            ),
            Seed(
                name="strobe-one-more",
                file="fluidnpu_output_writer.sv",
                old="i < 32'(offset) + 32'(piece)) strobe",
                new="i <= 32'(offset) + 32'(piece)) strobe",
            ),
            Seed(
                name="space-wrong",
                file="fluidnpu_output_writer.sv",
                old="PieceWidth'(PortWords) - PieceWidth'(offset)",
                new="PieceWidth'(PortWords)",
            ),
            Seed(
                name="slot-of-another",
                file="fluidnpu_output_writer.sv",
                old="slot_i[row_sample] + ",
                new="slot_i[0] + ",
            ),
        ),
    ),
    "addresses": Proof(
        says="descriptors and weights are read from exactly the port words that hold them",
        top="addresses_proof",
        reads=(_TYPES, "fluidnpu_descriptor_fetch.sv", "fluidnpu_weight_streamer.sv"),
        harness=("addresses_proof.sv", "fifo_contract.sv", "unpack_contract.sv"),
        depth=1,
        seeds=(
            Seed(
                name="descriptor-of-another-layer",
                file="fluidnpu_descriptor_fetch.sv",
                old="{layer_i, 7'd0}",
                new="{layer_i, 6'd0}",
            ),
            Seed(
                name="a-word-too-many",
                file="fluidnpu_weight_streamer.sv",
                old="32'(PortWords) - 32'd1) / PortWords",
                new="32'(PortWords)) / PortWords",
            ),
        ),
    ),
    "read-progress": Proof(
        says="on a fair bus a read master never stands still, and a flush ends within a bound",
        top="read_progress",
        reads=("fluidnpu_fifo.sv", "axi_read_master.sv"),
        harness=("read_progress.sv",),
        depth=8,
        search_depth=40,
        seeds=(
            Seed(
                name="room-for-two-bursts",
                file="axi_read_master.sv",
                old="32'(length) <= QueueBeats;",
                new="32'(length) + MaxBurst <= QueueBeats - 1;",
            ),
            Seed(
                name="flush-drops-no-request",
                file="axi_read_master.sv",
                old="      if (flush_i) left_q <= '0;\n",
                new="",
                any_state=True,
            ),
        ),
    ),
    "write-progress": Proof(
        says="on a fair bus a closed write master never stands still, and a flush ends within a bound",
        top="write_progress",
        reads=("axi_write_master.sv",),
        harness=("write_progress.sv", "fifo_contract.sv"),
        inside={"axi_write_master.sv": "inside_write_master.sv"},
        depth=8,
        search_depth=24,
        seeds=(
            Seed(
                name="close-ignored",
                file="axi_write_master.sv",
                old="(full || close_i || ",
                new="(full || ",
                any_state=True,
            ),
            Seed(
                name="rest-waits-for-data",
                file="axi_write_master.sv",
                old="(dummy_q || flush_i || data_valid)",
                new="data_valid",
                any_state=True,
            ),
        ),
    ),
}
