// Runs test namespaces: node nbb-run.mjs NAMESPACE…; writes `KEY <tests> <failed>` to fd 3 at their end, where KEY is what
// stdin said before any of their code was loaded. A solution that reports an end of its own is found by there being two;
// that the functions of `cljs.core` and `cljs.test`, and what `report` does, are the old ones is looked at twice.
import fs from 'node:fs'
import { takeKey } from './run-key.mjs'

const { writeSync } = fs
const exit = process.exit.bind(process)
const key = takeKey()
const spaces = process.argv.splice(2)
const { loadString, addClassPath } = await import('/node_modules/nbb/index.mjs')
const ends = { count: 0, tests: 0, failed: 0 }
const end = (tests, failed) => {
  ends.count += 1
  ends.tests = tests
  ends.failed = failed
}
addClassPath('src')
addClassPath('test')
const wait = await loadString(`
(require '[cljs.test :as t])
(fn [end]
  (defmethod t/report [:cljs.test/default :end-run-tests] [r] (end (:test r) (+ (:fail r) (:error r)))))`)
wait(end)
const held = await loadString(`
(let [vars (filterv #(not (:dynamic (meta %))) (mapcat (comp vals ns-publics) ['clojure.core 'cljs.test]))
      root (fn [one] (if (var? one) (deref one) one)) ; nbb has some functions of the core without a var.
      roots (mapv root vars)
      report t/report
      ways (methods report)
      [every pairs same methods-of equal] [every? map identical? methods =]]
  (fn []
    (and (every true? (pairs (fn [one old] (same (root one) old)) vars roots)) (equal ways (methods-of report)))))`)
const quoted = spaces.map((name) => `'${name}`).join(' ')
await loadString(`(require ${quoted})`)
const heldFirst = held()
await loadString(`(cljs.test/run-tests ${quoted})`)
const failed = ends.failed + (heldFirst === true && held() === true && ends.count === 1 ? 0 : 1)
writeSync(3, key)
writeSync(3, ` ${ends.tests} ${failed}\n`)
exit(0)
