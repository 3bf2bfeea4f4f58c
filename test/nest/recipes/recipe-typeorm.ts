import { ConflictException, Injectable } from '@nestjs/common';
import { Column, DataSource, Entity, PrimaryColumn } from 'typeorm';
import { Transactional } from 'typeorm-transactional';
import { currentLock, Locked } from '../../../lib/index.js';

@Entity()
export class Account {
  @PrimaryColumn('text')
  id!: string;

  @Column('integer')
  balance!: number;

  /** The token of the last holder that wrote. It has 16 digits. */
  @Column('bigint')
  fencingToken!: number;
}

@Injectable()
export class Accounts {
  constructor(private readonly dataSource: DataSource) {}

  /** `@Locked` stands above: the commit is inside the lock. */
  @Locked('account:<0>')
  @Transactional()
  async deposit(id: string, amount: number): Promise<void> {
    const { fencingToken } = currentLock();
    const { affected } = await this.dataSource
      .createQueryBuilder()
      .update(Account)
      .set({ balance: () => 'balance + :amount', fencingToken })
      .where('id = :id AND "fencingToken" <= :fencingToken', { id, fencingToken, amount })
      .execute();
    // A later holder has written: this call was late, and what it did is rolled back.
    if (affected !== 1) throw new ConflictException(`The account ${id} was changed by a later call.`);
  }
}
