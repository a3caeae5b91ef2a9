export function Page(props: { code: string }) {
  const re = new RegExp(props.code);
  return <p>{String(eval(props.code))}{String(re)}</p>;
}
