// A reporter for node's test runner: one line for each test, see parseLines.
import { relative } from 'node:path'

export default async function * (source) {
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    const file = relative(process.cwd(), data.file ?? '')
    const name = relative(process.cwd(), data.name) === file ? '' : data.name
    const result = data.skip !== undefined ? 'skip' : type === 'test:pass' ? 'pass' : 'fail'
    yield `\ncompat ${JSON.stringify({ test: `${file}:${data.nesting}:${name}`, result })}\n`
    if (result === 'fail') yield `${data.details?.error?.cause?.stack ?? data.details?.error}\n`
  }
}
