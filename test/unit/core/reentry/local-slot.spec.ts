import { LocalSlot, type SlotUse } from '../../../../lib/core/reentry/local-slot.js';

/** A slot, and its callbacks in order. */
function setUp() {
  const slot = new LocalSlot();
  const told: string[] = [];
  const come = (name: string, use: SlotUse): (() => void) =>
    slot.enter(use, (outcome) => told.push(`${name} ${outcome}`));
  return { slot, told, come };
}

describe('a local slot', () => {
  it('admits the first at once, in the turn of the call', () => {
    const { slot, told, come } = setUp();
    expect(slot.isWritten).toBe(false);
    come('a', 'write');
    expect([told, slot.isWritten]).toEqual([['a entered'], true]);
  });

  it('admits writers one at a time, first in, first out', () => {
    const { slot, told, come } = setUp();
    for (const name of ['a', 'b', 'c']) come(name, 'write');
    expect(told).toEqual(['a entered']);
    slot.leave('write');
    expect(told).toEqual(['a entered', 'b entered']);
    slot.leave('write');
    slot.leave('write');
    expect(told).toEqual(['a entered', 'b entered', 'c entered']);
    expect(slot.isWritten).toBe(false);
  });

  it('admits readers together, and a writer when the last of them has left', () => {
    const { slot, told, come } = setUp();
    for (const name of ['a', 'b']) come(name, 'read');
    come('c', 'write');
    expect([told, slot.isWritten]).toEqual([['a entered', 'b entered'], false]);
    slot.leave('read');
    expect(told).toHaveLength(2);
    slot.leave('read');
    expect([told.at(-1), slot.isWritten]).toEqual(['c entered', true]);
  });

  it('keeps readers out while a writer is inside, and admits all of them after it', () => {
    const { slot, told, come } = setUp();
    come('a', 'write');
    for (const name of ['b', 'c']) come(name, 'read');
    expect(told).toEqual(['a entered']);
    slot.leave('write');
    expect(told).toEqual(['a entered', 'b entered', 'c entered']);
  });

  it('does not let a reader pass a writer that came before', () => {
    const { slot, told, come } = setUp();
    come('a', 'read');
    come('b', 'write');
    come('c', 'read');
    expect(told).toEqual(['a entered']);
    slot.leave('read');
    expect(told).toEqual(['a entered', 'b entered']);
    slot.leave('write');
    expect(told.at(-1)).toBe('c entered');
  });

  it('admits users of a permit one at a time, beside readers, and never beside a writer', () => {
    const { slot, told, come } = setUp();
    come('a', 'permit');
    come('b', 'read');
    come('c', 'permit');
    expect([told, slot.isWritten, slot.hasWriter]).toEqual([['a entered', 'b entered'], false, false]);
    slot.leave('read');
    expect(told).toHaveLength(2);
    come('d', 'write');
    slot.leave('permit');
    expect(told).toEqual(['a entered', 'b entered', 'c entered']);
    slot.leave('permit');
    expect(told.at(-1)).toBe('d entered');
    come('e', 'permit');
    expect(told).toHaveLength(4);
    slot.leave('write');
    expect(told.at(-1)).toBe('e entered');
  });

  it('admits the readers behind a writer when it leaves the queue', () => {
    const { told, come } = setUp();
    come('a', 'read');
    const leaveQueue = come('b', 'write');
    for (const name of ['c', 'd']) come(name, 'read');
    leaveQueue();
    expect(told).toEqual(['a entered', 'c entered', 'd entered']);
  });

  it('never calls back an entry that left the queue, and leaving twice or after entering does nothing', () => {
    const { slot, told, come } = setUp();
    const leaveAfterEntering = come('a', 'write');
    const leaveQueue = come('b', 'write');
    come('c', 'write');
    leaveQueue();
    leaveQueue();
    leaveAfterEntering();
    expect(told).toEqual(['a entered']);
    slot.leave('write');
    expect(told).toEqual(['a entered', 'c entered']);
  });

  it('refuses all waiting and later entries once it is closed, while those inside stay', () => {
    const { slot, told, come } = setUp();
    come('a', 'write');
    come('b', 'write');
    come('c', 'read');
    slot.close();
    expect([told, slot.isWritten]).toEqual([['a entered', 'b closed', 'c closed'], true]);
    come('d', 'read');
    slot.leave('write');
    come('e', 'write');
    expect(told.slice(3)).toEqual(['d closed', 'e closed']);
    expect(slot.isWritten).toBe(false);
  });

  it('lets in at once whom nobody excludes, behind nobody who waits, until it is closed', () => {
    const { slot, told, come } = setUp();
    expect([slot.tryEnter('read'), slot.tryEnter('read'), slot.tryEnter('write')]).toEqual([true, true, false]);
    const leaveQueue = come('a', 'write');
    expect([told, slot.tryEnter('read')]).toEqual([[], false]);
    leaveQueue();
    expect(slot.tryEnter('read')).toBe(true);
    slot.close();
    expect(slot.tryEnter('read')).toBe(false);
  });
});
