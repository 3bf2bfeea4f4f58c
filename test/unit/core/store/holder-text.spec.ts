import { HolderTexts, nameOfHolder, readHolderText, waitsUntil } from '../../../../lib/core/store/holder-text.js';

const textOf = (where: string, waitMs = 0, note = ''): string => new HolderTexts('web-1:42').of(where, waitMs, note);

describe('the text that names a holder', () => {
  it.each([
    ['the instance', textOf(''), 'web-1:42'],
    ['the method', textOf('Orders.pay'), 'web-1:42 Orders.pay'],
    ['the time that it waits', textOf('Orders.pay', 10_000), 'web-1:42 Orders.pay\t10000'],
    ['nothing about an endless wait', textOf('Orders.pay', Infinity), 'web-1:42 Orders.pay'],
    ['its note', textOf('', 0, 'order 17'), 'web-1:42\t\torder 17'],
    ['all of these, in one line', textOf('Orders.pay', 5, 'a\nb'), 'web-1:42 Orders.pay\t5\ta b'],
    ['a method whose name has two lines and a tab', textOf('Orders.a\nb\tc'), 'web-1:42 Orders.a b c'],
  ])('has %s', (_what, text, expected) => {
    expect(text).toBe(expected);
  });

  it('changes with each of its parts', () => {
    const texts = new HolderTexts('web-1:42');
    const calls: [string, number, string][] = [['', 0, ''], ['A.b', 0, ''], ['A.b', 1, ''], ['A.b', 1, 'n'], ['', 1, 'n'], ['', 0, '']]; // prettier-ignore
    const written = calls.map((call) => texts.of(...call));
    expect(written).toEqual(calls.map((call) => textOf(...call)));
  });

  it.each([
    ['', { host: '', pid: 0, where: '', note: '' }],
    ['somebody', { host: '', pid: NaN, where: '', note: '' }],
    ['::1:42 a b', { host: '::1', pid: 42, where: 'a b', note: '' }],
    ['web-1:42 Orders.pay\t5\ta\tb', { host: 'web-1', pid: 42, where: 'Orders.pay', note: 'a\tb' }],
  ])('is read: %j', (text, caller) => {
    expect(readHolderText(text)).toEqual(caller);
  });

  it.each([
    ['web-1:42 Orders.pay\t5000', new Date(6_000)],
    ['web-1:42\t5000\torder 17', new Date(6_000)],
    ['web-1:42 Orders.pay', null],
    ['web-1:42\t\t5000', null],
    [`web-1:42\t${'9'.repeat(30)}`, null],
    ['', null],
  ])('shows until when the caller waits: %j', (text, until) => {
    expect(waitsUntil(text, 1_000)).toEqual(until);
  });

  it.each([
    ['web-1:42 Orders.pay', 'web-1:42 Orders.pay'],
    ['web-1:42 Orders.pay\t5', 'web-1:42 Orders.pay'],
    ['web-1:42\t\torder\t17', 'web-1:42 (order\\t17)'],
    [undefined, undefined],
  ])('has a name: %j', (text, name) => {
    expect(nameOfHolder(text)).toBe(name);
  });
});
