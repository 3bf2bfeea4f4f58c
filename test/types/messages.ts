import type { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import type { Observable } from 'rxjs';
import type { StreamError } from '../../lib/decorators/locked-method.types.js';
import type { KeyTemplateError } from '../../lib/keys/key-template.types.js';
import { check, type Order, type Same } from './support.js';

type NotAnArgument<P extends string> = `<${P}> is not an argument of this method`;
type NotNumbered<P extends string> =
  `${NotAnArgument<P>}: arguments are numbered, '<0>' is the first, '<0.id>' a property of it`;
type MayBeUndefined<P extends string> =
  `<${P}> may be undefined: make it required, as in [string, ...string[]] or { id: string }, or use a key function`;
type MayBeNull<P extends string> = `<${P}> may be null: leave null out of its type, or use a key function`;
type Braces = "{ and } fill nothing: write '<0>' for the first argument, '<0.id>' for a property of it";
type MayBeElse<P extends string> = `<${P}> may be something other than a string, number, bigint or boolean`;

/** What the compiler shows, as `Property 'lockKeyError' is missing ... '<0.idd> is not an argument of this method'`. */
check<Same<KeyTemplateError<'order:<0.idd>', [Order]>, '<0.idd> is not an argument of this method'>>();
check<
  Same<KeyTemplateError<'order:<0>', [Order]>, '<0> may be something other than a string, number, bigint or boolean'>
>();
check<Same<KeyTemplateError<'order:<0', [string]>, '<0 is not closed with >'>>();

/** Each wrong placeholder has its sentence, and only the wrong ones. */
check<Same<KeyTemplateError<'<0.id>:<0.a>:<0.b>', [Order]>, NotAnArgument<'0.a'> | NotAnArgument<'0.b'>>>();
check<Same<KeyTemplateError<'a:<0.id>' | 'b:<0>' | 'c:<1>', [Order]>, MayBeElse<'0'> | NotAnArgument<'1'>>>();

/** The sentence of each mistake. */
check<Same<KeyTemplateError<'<0>', []>, NotAnArgument<'0'>>>();
check<Same<KeyTemplateError<'<>', [string]>, NotNumbered<''>>>();
check<Same<KeyTemplateError<'<id>', [string]>, NotNumbered<'id'>>>();
check<Same<KeyTemplateError<'< 0>', [string]>, NotAnArgument<' 0'>>>();
check<Same<KeyTemplateError<'<0.>', [Order]>, NotAnArgument<'0.'>>>();
check<Same<KeyTemplateError<'<-1>', string[]>, NotAnArgument<'-1'>>>();
check<Same<KeyTemplateError<'<0.range.2>', [Order]>, NotAnArgument<'0.range.2'>>>();
check<Same<KeyTemplateError<'<0.id>', [unknown]>, NotAnArgument<'0.id'>>>();
check<Same<KeyTemplateError<'<0>', [unknown]>, MayBeElse<'0'>>>();
check<Same<KeyTemplateError<'<0>', [id?: string]>, MayBeUndefined<'0'>>>();
check<Same<KeyTemplateError<'<0>', [string | null]>, MayBeNull<'0'>>>();
check<Same<KeyTemplateError<'<0.note>', [Order]>, MayBeUndefined<'0.note'>>>();
check<Same<KeyTemplateError<'<0.guest.id>', [Order]>, MayBeUndefined<'0.guest.id'>>>();
check<Same<KeyTemplateError<'<0.approver.id>', [Order]>, MayBeNull<'0.approver.id'>>>();
check<Same<KeyTemplateError<'<0.createdAt>', [Order]>, MayBeElse<'0.createdAt'>>>();

check<Same<KeyTemplateError<'<0>', [string | undefined | null]>, MayBeUndefined<'0'>>>();
check<Same<KeyTemplateError<'<0>', [Date | undefined]>, MayBeElse<'0'>>>();
check<Same<KeyTemplateError<'<this.id>', [Order]>, NotNumbered<'this.id'>>>();
check<Same<KeyTemplateError<'<0>:<1>', [string, ...string[]]>, MayBeUndefined<'1'>>>();
check<Same<KeyTemplateError<'<0.0>', [string[]]>, MayBeUndefined<'0.0'>>>();
check<Same<KeyTemplateError<'<0.id>', [Record<string, string>]>, MayBeUndefined<'0.id'>>>();
check<Same<KeyTemplateError<'<0.id.a>', [Record<string, Record<string, number>>]>, MayBeUndefined<'0.id.a'>>>();

/** Braces are reported first, and once. */
check<Same<KeyTemplateError<'order:${id}', [string]>, Braces>>();
check<Same<KeyTemplateError<'order:{0}' | 'order:#{id}:<1>', [string]>, Braces>>();
check<Same<KeyTemplateError<`${string}{id}`, [any]>, Braces>>();

/** `<<` is not a placeholder, but one may follow it. */
check<Same<KeyTemplateError<'<<0.idd>', [Order]>, never>>();
check<Same<KeyTemplateError<'<<<0.idd>', [Order]>, NotAnArgument<'0.idd'>>>();
check<Same<KeyTemplateError<'<<<<0.idd>', [Order]>, never>>();
check<Same<KeyTemplateError<'a<<', []>, never>>();
check<Same<KeyTemplateError<'a<', []>, '< is not closed with >'>>();

/** Valid placeholders, `any` and unknown texts have no sentence. */
check<Same<KeyTemplateError<'order:<0.id>:<1>', [Order, 1 | 'a']>, never>>();
check<Same<KeyTemplateError<'order:<0.x.y>', [any]>, never>>();
check<Same<KeyTemplateError<string, [Order]>, never>>();
check<Same<KeyTemplateError<`<${string}>`, []>, never>>();

/** What the compiler shows of a result, as `Property 'lockedResultError' is missing ... 'a locked method cannot ...'`. */
type NoStream =
  'a locked method cannot return a stream: return an Observable, an async iterable, or a promise of the whole result';
check<Same<StreamError<Readable>, NoStream>>();
check<Same<StreamError<NodeJS.ReadableStream>, NoStream>>();
check<Same<StreamError<ReadableStream<string>>, NoStream>>();
check<Same<StreamError<Promise<string> | Readable>, NoStream>>();
check<Same<StreamError<Promise<Readable>>, never>>();
check<Same<StreamError<Observable<string>>, never>>();
check<Same<StreamError<AsyncGenerator<string>>, never>>();
check<Same<StreamError<any>, never>>();

/** The checker itself can fail. */
// @ts-expect-error another sentence
check<Same<KeyTemplateError<'order:<0.idd>', [Order]>, NotAnArgument<'0.id'>>>();
// @ts-expect-error no sentence
check<Same<KeyTemplateError<'order:<0.idd>', [Order]>, never>>();
