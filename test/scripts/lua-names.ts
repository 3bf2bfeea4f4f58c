/** Where the names in a Lua text come from. Knows as much of Lua 5.1 as the scripts use. */
export interface LuaNames {
  /** Functions that the text defines at its top level. */
  readonly functions: ReadonlySet<string>;
  /** Other locals that the text defines at its top level. */
  readonly variables: ReadonlySet<string>;
  /** Names that the text uses and does not define. */
  readonly free: ReadonlySet<string>;
  /** The free names to which it assigns. */
  readonly assigned: ReadonlySet<string>;
  /** The free names whose value it uses. */
  readonly read: ReadonlySet<string>;
}

const TOKEN =
  /--\[\[[\s\S]*?\]\]|--[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d[\w.]*|\.{2,3}|[=~<>]=|\S/g;
const KEYWORDS = new Set(
  'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
);
const isName = (token: string | undefined): token is string => /^[A-Za-z_]/.test(token ?? '') && !KEYWORDS.has(token!);

/** Reads a Lua text from its start to its end, with the scopes that are open. */
class NameReader {
  readonly #tokens: readonly string[];
  #at = 0;
  readonly #scopes: Set<string>[] = [new Set()];
  /** How many braces are open: in them, `name =` is a field. */
  #braces = 0;
  readonly functions = new Set<string>();
  readonly variables = new Set<string>();
  readonly free = new Set<string>();
  readonly assigned = new Set<string>();
  readonly read = new Set<string>();

  constructor(text: string) {
    this.#tokens = (text.match(TOKEN) ?? []).filter((token) => !token.startsWith('--'));
  }

  readAll(): LuaNames {
    while (this.#at < this.#tokens.length) this.#readOne();
    if (this.#scopes.length !== 1) throw new Error(`${this.#scopes.length - 1} blocks of the Lua text are not ended.`);
    return this;
  }

  #readOne(): void {
    const token = this.#next();
    if (token === 'local') this.#readLocal();
    else if (token === 'function') this.#readFunction();
    else if (token === 'for') this.#readFor();
    else if (token === 'then' || token === 'do' || token === 'repeat') this.#open();
    else if (token === 'end' || token === 'elseif' || token === 'until') this.#close();
    else if (token === 'else') this.#reopen();
    else if (token === '.' || token === ':') this.#at += 1;
    else if (token === '{') this.#braces += 1;
    else if (token === '}') this.#braces -= 1;
    else if (isName(token)) this.#readName(token);
  }

  #readLocal(): void {
    if (this.#peek() === 'function') {
      this.#at += 1;
      this.#define(this.#next(), this.functions);
      this.#readFunction();
      return;
    }
    for (const name of this.#names()) this.#define(name, this.variables);
  }

  #readFunction(): void {
    if (isName(this.#peek())) this.#readName(this.#next());
    this.#expect('(');
    const parameters = this.#names();
    this.#expect(')');
    this.#open(parameters);
  }

  /** The body is the next `do`: what stands before it uses no name that the loop defines. */
  #readFor(): void {
    const names = this.#names();
    while (this.#peek() !== 'do') this.#readOne();
    this.#at += 1;
    this.#open(names);
  }

  #readName(name: string): void {
    const isField = this.#braces > 0 && this.#peek() === '=';
    const isAssigned = this.#braces === 0 && this.#isTarget();
    while (this.#peek() === '.' || this.#peek() === ':') this.#at += 2;
    if (isField || this.#scopes.some((scope) => scope.has(name))) return;
    this.free.add(name);
    (isAssigned ? this.assigned : this.read).add(name);
  }

  /** Whether `=` follows, or another name and then `=`. */
  #isTarget(): boolean {
    let at = this.#at;
    while (this.#tokens[at] === ',' && isName(this.#tokens[at + 1])) at += 2;
    return this.#tokens[at] === '=';
  }

  #define(name: string, kind: Set<string>): void {
    if (this.#scopes.length === 1) kind.add(name);
    this.#scopes.at(-1)!.add(name);
  }

  #names(): string[] {
    const names: string[] = [];
    while (isName(this.#peek())) {
      names.push(this.#next());
      if (this.#peek() === ',') this.#at += 1;
      else break;
    }
    return names;
  }

  #open(names: readonly string[] = []): void {
    this.#scopes.push(new Set(names));
  }

  #close(): void {
    if (this.#scopes.length === 1) throw new Error('The Lua text ends a block that it did not begin.');
    this.#scopes.pop();
  }

  #reopen(): void {
    this.#close();
    this.#open();
  }

  #expect(token: string): void {
    const found = this.#next();
    if (found !== token) throw new Error(`Expected "${token}" in the Lua text, got "${found}".`);
  }

  #next(): string {
    return this.#tokens[this.#at++]!;
  }

  #peek(): string | undefined {
    return this.#tokens[this.#at];
  }
}

export const luaNames = (text: string): LuaNames => new NameReader(text).readAll();
