/* Register map of the NPU; generated from hls/registers.py. Offsets are bytes on the AXI4-Lite port. */
#ifndef FLUIDNPU_REGISTERS_H
#define FLUIDNPU_REGISTERS_H

#define FLUIDNPU_WINDOW_BYTES 0x100u

/* W1S: Commands; one bit a write, several without SOFT_RESET set ERROR (BUSY), and so do START, EXIT and MERGE while busy. */
#define FLUIDNPU_CTRL 0x00u
/* RO: What the NPU is doing. */
#define FLUIDNPU_STATUS 0x04u
/* RW: Which events raise the interrupt. */
#define FLUIDNPU_IRQ_ENABLE 0x08u
/* W1C: Events since they were last cleared; SOFT_RESET leaves them. */
#define FLUIDNPU_IRQ_STATUS 0x0Cu
/* RO: First error since the last START or SOFT_RESET. Of several in one cycle the first of this order is told: BUS_READ, BUS_WRITE, WATCHDOG, then the plan's; each of these before the refusal of a write. */
#define FLUIDNPU_ERROR 0x10u
/* RO: First 32 bits of the design's digest; a driver with another bundle must refuse. */
#define FLUIDNPU_BUILD_ID 0x14u
/* RO: What was built. */
#define FLUIDNPU_SHAPE 0x18u
/* RW: Slots that the next EXIT or MERGE means; bit i is slot i. */
#define FLUIDNPU_SLOT_MASK 0x1Cu
/* RO: Slots of the active batch; bit i is slot i. */
#define FLUIDNPU_ACTIVE 0x20u
/* RW: First layer of a job. */
#define FLUIDNPU_FIRST_LAYER 0x24u
/* RW: Last layer of a job, inclusive. */
#define FLUIDNPU_LAST_LAYER 0x28u
/* RW: Descriptors in the program. */
#define FLUIDNPU_LAYERS 0x2Cu
/* RW: Address of descriptor 0, low half; 64-byte aligned. */
#define FLUIDNPU_PROGRAM_LO 0x30u
/* RW: Address of descriptor 0, high half. */
#define FLUIDNPU_PROGRAM_HI 0x34u
/* RW: Address of the weight image, low half; 64-byte aligned. */
#define FLUIDNPU_WEIGHTS_LO 0x38u
/* RW: Address of the weight image, high half. */
#define FLUIDNPU_WEIGHTS_HI 0x3Cu
/* RW: Address of slot 0, low half; 64-byte aligned. */
#define FLUIDNPU_SLOT_BASE_LO 0x40u
/* RW: Address of slot 0, high half. */
#define FLUIDNPU_SLOT_BASE_HI 0x44u
/* RW: Distance between slots in bytes; a multiple of 64. */
#define FLUIDNPU_SLOT_BYTES 0x48u
/* RW: Cycles after which a job is dropped with an error; 0 switches it off. */
#define FLUIDNPU_WATCHDOG 0x4Cu
/* RO: Cycles of the job that runs or ran last, low half. */
#define FLUIDNPU_CYCLES_LO 0x50u
/* RO: Cycles of the job that runs or ran last, high half. */
#define FLUIDNPU_CYCLES_HI 0x54u
/* RO: Outputs that saturated in the last job; stays at its largest value. */
#define FLUIDNPU_SATURATIONS 0x58u
/* RW: FBCB word that FBCB_DATA writes: layer * b_max + batch - 1; steps on after each write, also a refused one. */
#define FLUIDNPU_FBCB_INDEX 0x5Cu
/* RW: One FBCB word (ADR 5), range-checked on the way in; reads the word at FBCB_INDEX, and 0 while busy or beyond the last. */
#define FLUIDNPU_FBCB_DATA 0x60u
/* RW: Layer whose counters LAYER_CYCLES and those behind it show. */
#define FLUIDNPU_COUNTERS_LAYER 0x64u
/* RO: Cycles of the layer, from the end of the one before, or from START, to its own. */
#define FLUIDNPU_LAYER_CYCLES 0x80u
/* RO: Cycles in which the core took a beat of input. */
#define FLUIDNPU_LAYER_INPUTS 0x84u
/* RO: Cycles in which the core waited for input. */
#define FLUIDNPU_LAYER_STARVED 0x88u
/* RO: Cycles in which input waited for the core. */
#define FLUIDNPU_LAYER_BLOCKED 0x8Cu
/* RO: Words of the port that came from memory, of all masters. */
#define FLUIDNPU_LAYER_READ_BEATS 0x90u
/* RO: Read bursts that were asked for, of all masters. */
#define FLUIDNPU_LAYER_READ_BURSTS 0x94u
/* RO: Words of the port that went to memory. */
#define FLUIDNPU_LAYER_WRITE_BEATS 0x98u
/* RO: Write bursts that were begun. */
#define FLUIDNPU_LAYER_WRITE_BURSTS 0x9Cu

/* run layers FIRST_LAYER..LAST_LAYER for the active slots */
#define FLUIDNPU_CTRL_START_SHIFT 0
#define FLUIDNPU_CTRL_START_MASK 0x00000001u
/* remove the slots of SLOT_MASK from the active batch */
#define FLUIDNPU_CTRL_EXIT_SHIFT 1
#define FLUIDNPU_CTRL_EXIT_MASK 0x00000002u
/* add the slots of SLOT_MASK to the active batch */
#define FLUIDNPU_CTRL_MERGE_SHIFT 2
#define FLUIDNPU_CTRL_MERGE_MASK 0x00000004u
/* drop the job, wait for outstanding bus responses, empty the batch, clear ERROR */
#define FLUIDNPU_CTRL_SOFT_RESET_SHIFT 3
#define FLUIDNPU_CTRL_SOFT_RESET_MASK 0x00000008u
/* no job runs and no bus response is outstanding */
#define FLUIDNPU_STATUS_IDLE_SHIFT 0
#define FLUIDNPU_STATUS_IDLE_MASK 0x00000001u
/* a job runs */
#define FLUIDNPU_STATUS_BUSY_SHIFT 1
#define FLUIDNPU_STATUS_BUSY_MASK 0x00000002u
/* the last job ended without an error */
#define FLUIDNPU_STATUS_DONE_SHIFT 2
#define FLUIDNPU_STATUS_DONE_MASK 0x00000004u
/* ERROR holds a cause */
#define FLUIDNPU_STATUS_ERROR_SHIFT 3
#define FLUIDNPU_STATUS_ERROR_MASK 0x00000008u
/* number of active slots */
#define FLUIDNPU_STATUS_B_ACT_SHIFT 8
#define FLUIDNPU_STATUS_B_ACT_MASK 0x0000FF00u
/* layer that runs or ran last: the heartbeat */
#define FLUIDNPU_STATUS_LAYER_SHIFT 16
#define FLUIDNPU_STATUS_LAYER_MASK 0xFFFF0000u
/* a job ended without an error */
#define FLUIDNPU_IRQ_ENABLE_DONE_SHIFT 0
#define FLUIDNPU_IRQ_ENABLE_DONE_MASK 0x00000001u
/* ERROR was set */
#define FLUIDNPU_IRQ_ENABLE_ERROR_SHIFT 1
#define FLUIDNPU_IRQ_ENABLE_ERROR_MASK 0x00000002u
/* a job ended without an error */
#define FLUIDNPU_IRQ_STATUS_DONE_SHIFT 0
#define FLUIDNPU_IRQ_STATUS_DONE_MASK 0x00000001u
/* ERROR was set */
#define FLUIDNPU_IRQ_STATUS_ERROR_SHIFT 1
#define FLUIDNPU_IRQ_STATUS_ERROR_MASK 0x00000002u
/* see Cause */
#define FLUIDNPU_ERROR_CAUSE_SHIFT 0
#define FLUIDNPU_ERROR_CAUSE_MASK 0x000000FFu
/* layer it happened in */
#define FLUIDNPU_ERROR_LAYER_SHIFT 16
#define FLUIDNPU_ERROR_LAYER_MASK 0xFFFF0000u
/* largest active batch */
#define FLUIDNPU_SHAPE_B_MAX_SHIFT 0
#define FLUIDNPU_SHAPE_B_MAX_MASK 0x0000001Fu
/* of this map and of the descriptor: 3 */
#define FLUIDNPU_SHAPE_VERSION_SHIFT 5
#define FLUIDNPU_SHAPE_VERSION_MASK 0x000000E0u
/* words a PE multiplies in one cycle */
#define FLUIDNPU_SHAPE_T_P_SHIFT 8
#define FLUIDNPU_SHAPE_T_P_MASK 0x0000FF00u
/* processing elements */
#define FLUIDNPU_SHAPE_T_C_SHIFT 16
#define FLUIDNPU_SHAPE_T_C_MASK 0x0FFF0000u
/* k = 2 and lanes exist */
#define FLUIDNPU_SHAPE_STACKABLE_SHIFT 28
#define FLUIDNPU_SHAPE_STACKABLE_MASK 0x10000000u
/* k = 1/2 exists */
#define FLUIDNPU_SHAPE_SPLIT_SHIFT 29
#define FLUIDNPU_SHAPE_SPLIT_MASK 0x20000000u
#define FLUIDNPU_FIRST_LAYER_INDEX_SHIFT 0
#define FLUIDNPU_FIRST_LAYER_INDEX_MASK 0x0000FFFFu
#define FLUIDNPU_LAST_LAYER_INDEX_SHIFT 0
#define FLUIDNPU_LAST_LAYER_INDEX_MASK 0x0000FFFFu
#define FLUIDNPU_LAYERS_COUNT_SHIFT 0
#define FLUIDNPU_LAYERS_COUNT_MASK 0x0000FFFFu
/* 0: k = 1, 1: k = 2, 2: k = 1/2, 3: k = 1 with row lanes */
#define FLUIDNPU_FBCB_DATA_K_SHIFT 0
#define FLUIDNPU_FBCB_DATA_K_MASK 0x00000003u
/* samples stacked along the rows of a lane, less one */
#define FLUIDNPU_FBCB_DATA_B_R_SHIFT 2
#define FLUIDNPU_FBCB_DATA_B_R_MASK 0x0000007Cu
/* beats of a row block at most; 0: as many as an accumulator bank holds */
#define FLUIDNPU_FBCB_DATA_BLOCK_SHIFT 7
#define FLUIDNPU_FBCB_DATA_BLOCK_MASK 0x007FFF80u
#define FLUIDNPU_COUNTERS_LAYER_INDEX_SHIFT 0
#define FLUIDNPU_COUNTERS_LAYER_INDEX_MASK 0x0000FFFFu

#define FLUIDNPU_CAUSE_NONE 0u
#define FLUIDNPU_CAUSE_EXIT_NOT_ACTIVE 1u
#define FLUIDNPU_CAUSE_MERGE_ACTIVE 2u
#define FLUIDNPU_CAUSE_BATCH_TOO_LARGE 3u
#define FLUIDNPU_CAUSE_BAD_LAYER_RANGE 4u
#define FLUIDNPU_CAUSE_EMPTY_BATCH 5u
#define FLUIDNPU_CAUSE_BUSY 6u
#define FLUIDNPU_CAUSE_BAD_DESCRIPTOR 7u
#define FLUIDNPU_CAUSE_BAD_FBCB 8u
#define FLUIDNPU_CAUSE_BUS_READ 9u
#define FLUIDNPU_CAUSE_BUS_WRITE 10u
#define FLUIDNPU_CAUSE_WATCHDOG 11u

#endif
